"""The operator: it watches training jobs and their scalings, decides, and acts.

The flow is on one page in docs/architecture.md. Layers import downwards only (pyproject.toml,
tool.importlinter): cli -> assembly -> reconciling | serving -> kube | runtime -> state | planning
-> codec -> model.
"""

__version__ = "0.1.0"
"""The version's one home.

pyproject.toml, towncrier, `--version` and the User-Agent take it from here: the operator's image
has this package and no metadata. A test holds the Helm chart to it.
"""
