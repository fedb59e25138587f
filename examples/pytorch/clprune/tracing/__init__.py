"""Models as programs (program.py), lists of a net's layers. graph.py runs a model by torch.fx, and trace.py goes through its
operations: known.py has modules as a whole, weights.py, arithmetic.py, shapes.py, attention.py, products.py, moves.py and images.py
operations of a sort, layers.py what all of these add to a program, views.py and made.py what their tensors are, and inputs.py
what a batch is."""
