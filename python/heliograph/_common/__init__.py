"""Code that all subpackages share: arguments, tensors, parameters, files, HTML. It names no scheme."""
