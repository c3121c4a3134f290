"""A BI-Sort worker node as a circuit (PanJoin, section IV), and a driver that runs it on arrays."""

from .driver import BiSortBench, BiSortRun, Figures, simulate_bi_sort
from .insertion import Indexer, InsertionEngine, RunMerger
from .memory import ExternalMemory, Reader
from .probing import BoundaryGenerator, Partitioner, Prober
from .probing_engine import ProbingEngine
from .shape import BiSortShape
from .steps import Clear, Insert, Probe
from .worker import BiSortWorker, Operation

Merger = RunMerger
"""The name that `RunMerger` had at first; it keeps working."""

__all__ = [
    "BiSortBench",
    "BiSortRun",
    "BiSortShape",
    "BiSortWorker",
    "BoundaryGenerator",
    "Clear",
    "ExternalMemory",
    "Figures",
    "Indexer",
    "Insert",
    "InsertionEngine",
    "Merger",
    "Operation",
    "Partitioner",
    "Probe",
    "Prober",
    "ProbingEngine",
    "Reader",
    "RunMerger",
    "simulate_bi_sort",
]
