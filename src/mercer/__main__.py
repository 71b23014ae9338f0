"""``python -m mercer`` is the command line."""

from mercer.cli import main

if __name__ == "__main__":
    main()
