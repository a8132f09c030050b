# The operator's image; the broker, a sidecar of launcher pods, et-scheduler and et-notices are the same image with another command.
#
#   docker build -t REGISTRY/et-operator:TAG .
#
# In it: Python, the locked dependencies of all programs and the packages et_contract, et_kube, et_notices,
# et_operator, et_process, et_scheduler, launcher and hostdiscovery, all compiled beforehand. No pip, no compiler, no shell script; nothing is written at
# run time, so that a read-only root file system and any user will do.
# BASE may be any image with python3 >= 3.11, its venv module and libstdc++, which numpy needs. A tag moves; to build from the very same base again give
# the digest that your registry has for it: --build-arg BASE=REGISTRY/python@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv tools
COPY pyproject.toml requirements.lock deploy/requirements.py ./
RUN python3 requirements.py pyproject.toml requirements.lock > runtime.txt \
    && tools/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps --only-binary :all: \
        --target /opt/dependencies --requirement runtime.txt \
    && rm -rf /opt/dependencies/bin \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/dependencies
COPY et_contract /opt/packages/et_contract
COPY et_kube /opt/packages/et_kube
COPY et_notices /opt/packages/et_notices
COPY et_operator /opt/packages/et_operator
COPY et_process /opt/packages/et_process
COPY et_scheduler /opt/packages/et_scheduler
COPY launcher /opt/packages/launcher
COPY hostdiscovery /opt/packages/hostdiscovery
RUN find /opt/packages -name __pycache__ -prune -exec rm -rf {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/packages

FROM ${BASE}
# Dependencies and packages are layers of their own: the second changes with every commit.
COPY --from=build /opt/dependencies /opt/et-operator/dependencies
COPY --from=build /opt/packages /opt/et-operator/packages
ENV PYTHONPATH=/opt/et-operator/packages:/opt/et-operator/dependencies \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["python3", "-m", "et_operator"]
