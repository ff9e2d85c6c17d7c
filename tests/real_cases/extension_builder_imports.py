"""torch.utils.cpp_extension imports setuptools, which torch itself asks for in some releases only.

Where it is missing, the environment is at fault and not torch.
"""

from torch.utils import cpp_extension

print(cpp_extension.__name__)
