"""Windows on a GPU: scans, and searches in sorted runs.

The law of the room: the GPU has copies only. Every stored tuple also lies in its subwindow on the CPU, so a step that
the GPU cannot do, or does not finish, is done there, and each pair is still found once.
"""
