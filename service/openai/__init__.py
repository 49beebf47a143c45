"""The OpenAI API: chat completions, text completions, responses, models.

Each endpoint has a module for what a request may say (`*_request`) and one that answers it; `request` holds what
requests have in common, `shapes` what answers have in common.
"""
