"""`python -m inferscale_sidecar.cli`."""

from inferscale_sidecar.cli import main

main()
