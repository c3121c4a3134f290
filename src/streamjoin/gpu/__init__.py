"""Scans on a GPU: what a side's window asks when all of its tuples are to be compared.

The law of the room: the GPU has copies only. Every stored tuple also lies in its subwindow on the CPU, so a step that
the GPU cannot do, or does not finish, is done there, and each pair is still found once.
"""
