"""The tables that can be run again, by name."""

from mercer.reproduce.papers import efgp, eigenpro, gegenbauer, ionescu, kar_karnick, mmd_fuse, munkhoeva, vnngp
from mercer.reproduce.tables import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {
    module.TABLE.name: module.TABLE
    for module in (kar_karnick, munkhoeva, ionescu, eigenpro, gegenbauer, mmd_fuse, vnngp, efgp)
}
