"""Modules that keep less for autograd's backward pass: kinds.py says which, modules.py what each becomes, functions.py has their
backward passes, and saved.py what is kept."""
