"""`python -m streamjoin.cli`."""

import sys

from . import main

sys.exit(main())
