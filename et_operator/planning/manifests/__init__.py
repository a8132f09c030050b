"""The objects that a job needs, as JSON to be created: pods, account and rights, config, keys.

They call the model, the codec, et_contract, et_kube and `planning.views`, and never decide whether
or when something is made: that is above them (creating, granting, publishing, queueing). ssh keys
are not in them: acting makes those when it writes.
"""
