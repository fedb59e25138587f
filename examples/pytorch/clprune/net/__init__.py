"""Whole models as nets of the library. net.py has Net, module.py NetModule, plan.py plan; below them run.py has a program in a
context, structures.py what ctypes needs, shared.py, losses.py and changes.py what a model and its net share."""
