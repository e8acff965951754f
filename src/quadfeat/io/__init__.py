"""Save objects of registered classes to files, and load them."""

from quadfeat.io.persistence import load, save
from quadfeat.io.registry import UPPER_TRIANGLE, register

__all__ = ["UPPER_TRIANGLE", "load", "register", "save"]
