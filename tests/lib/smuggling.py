"""tests/data/http-smuggling: messages that two readers of HTTP could read in two ways; its top says how."""
import pathlib

FILE = pathlib.Path(__file__).resolve().parent.parent / "data/http-smuggling"


def cases(kind):
    """The messages of a kind (request, body, answer) by name, as text of which each character is a byte."""
    rows = [line.split("\t") for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {name: text.encode("latin-1").decode("unicode_escape") for of, name, _, text in rows if of == kind}
