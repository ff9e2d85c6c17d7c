"""What stands in the way of a run on this machine. Looks and says; changes nothing on the disk.

Each module here asks the room that knows: this one only says what the answer means for a run, and how to mend it.
"""

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.doctor.chosen import chosen_builds
from bisect_torch.doctor.examine import examine

__all__ = ["Asked", "Check", "Status", "chosen_builds", "examine"]
