"""The Anthropic API: messages, and counting their tokens.

`request` is what a request may say, `messages` answers it, `shapes` writes the answer, `errors` says what is wrong in
this API's form.
"""
