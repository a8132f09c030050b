# The operator's image; the broker, a sidecar of launcher pods, is the same image with another command.
#
#   docker build -t REGISTRY/et-operator:TAG .
#
# In it: Python, the operator's locked dependencies and the packages et_operator, launcher and
# hostdiscovery, all compiled beforehand. No pip, no compiler, no shell script; nothing is written at
# run time, so that a read-only root file system and any user will do.
# BASE may be any image with python3 >= 3.11 and its venv module.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv tools
COPY pyproject.toml requirements.lock devcluster/requirements.py ./
RUN python3 requirements.py pyproject.toml requirements.lock > runtime.txt \
    && tools/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps --only-binary :all: \
        --target /opt/et-operator --requirement runtime.txt \
    && rm -rf /opt/et-operator/bin \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/et-operator
COPY et_operator /opt/et-operator/et_operator
COPY launcher /opt/et-operator/launcher
COPY hostdiscovery /opt/et-operator/hostdiscovery
RUN find /opt/et-operator/et_operator /opt/et-operator/launcher /opt/et-operator/hostdiscovery \
        -name __pycache__ -prune -exec rm -rf {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/et-operator/et_operator \
        /opt/et-operator/launcher /opt/et-operator/hostdiscovery

FROM ${BASE}
COPY --from=build /opt/et-operator /opt/et-operator
ENV PYTHONPATH=/opt/et-operator \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["python3", "-m", "et_operator"]
