"""python -m heliograph.cli"""

from heliograph.cli import app

if __name__ == "__main__":
    app()
