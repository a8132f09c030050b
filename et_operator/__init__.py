"""The operator: it watches training jobs and their scalings, decides, and acts.

The flow is on one page in docs/architecture.md. Layers import downwards only (pyproject.toml,
tool.importlinter): cli -> assembly -> reconciling | sweeping -> believing -> acting -> measuring ->
state | planning -> codec -> model -> settings. Below it are et_process, what a process runs on,
et_kube, the edge to the API server, and et_contract. It knows neither launcher nor et_scheduler:
documents and statuses are all that passes between them.
"""
