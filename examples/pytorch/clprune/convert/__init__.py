"""Modules that keep less for autograd's backward pass: kinds.py says which, modules.py what each becomes, functions.py has their
backward passes; compressed.py has what other modules save. sources.py is what is kept of a tensor, layout.py where it lies."""
