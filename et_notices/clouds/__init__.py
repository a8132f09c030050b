"""One cloud a file: which questions it is asked, and what its answers say. No I/O, no clock.

A file imports words of `questions`, kinds of notices and times of et_kube, texts of et_contract,
and no other cloud. How a question is sent, and what is done about a notice, none of them knows.
"""
