"""Code that all subpackages share: arguments, tensors, parameters, files, HTML. Code in this folder names no scheme."""
