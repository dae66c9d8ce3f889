"""Reports of Nsight Compute (``.ncu-rep``) through NVIDIA's own library, the package ``ncu-report``.

The package is optional and under a licence of NVIDIA's own. The file itself is checked first, without
it: the library takes a file that is cut off or damaged for a shorter one and says nothing.
"""

from hroof.readers.ncu_rep.container import looks_like
from hroof.readers.ncu_rep.reading import read

__all__ = ["looks_like", "read"]
