"""Entry point of ``python -m mercer``, which is the same as the command ``mercer``."""

from mercer.cli import main

if __name__ == "__main__":
    main()
