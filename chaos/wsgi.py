"""The WSGI application of the run: the product's, after the mutant if there is one."""

from chaos.mutants import mutate
from pylota.wsgi import application

mutate()

__all__ = ["application"]
