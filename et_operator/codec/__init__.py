"""JSON in and out: the objects of the API server become the model, and changes become patches.

What comes in is checked and bounded here; what cannot be read becomes an error that names its
field. It calls the model, formats of et_contract, and et_kube where what is read is not ours alone
(notices, shapes, times); it asks nobody and decides nothing. Whole objects that the operator
creates are written in planning/manifests.
"""
