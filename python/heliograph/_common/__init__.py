"""Code that all subpackages share: arguments, tensors, parameters, files, HTML. The folder names no scheme."""
