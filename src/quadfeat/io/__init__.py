"""Files and pickles: save and load objects of registered classes."""

from quadfeat.io.persistence import load, save
from quadfeat.io.registry import UPPER_TRIANGLE, register

__all__ = ["UPPER_TRIANGLE", "load", "register", "save"]
