"""`et`, the command line: training jobs for those who would rather not write YAML.

It is a user like any other: it has the rights of whoever runs it, and learns only what the API
server tells. It takes the nouns of operator and scheduler (model, codec), et_kube and et_contract,
and no decision of theirs. docs/cli.md shows it. Imports stay inside the commands, so that
`et --help` is quick.
"""
