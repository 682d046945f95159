"""Registries of implementations by name: included ones and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from seesay.errors import SeesayError, did_you_mean, naming_extras

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
C = TypeVar("C")


class Registry(Mapping[str, T], Generic[T]):
    """Implementations by name.

    A package adds one without a change here: it registers it with the decorator, and names the module that
    does so in its own metadata, as an entry point of this registry's group under the same name.

    Args:
        what: what is registered, such as "protocol".
        group: of entry points, such as "seesay.protocols".
        modules: the names of the included implementations by their module, which is imported when one of them
            is looked up. Those of this module itself need no mention.

    Example:
        >>> shapes = Registry[type]("shape", "seesay.shapes")
        >>> @shapes.register("square")
        ... class Square: ...
        >>> shapes["square"] is Square
        True
        >>> shapes["squre"]
        Traceback (most recent call last):
        seesay.errors.SeesayError: No shape 'squre'; did you mean 'square'? There are: square.
    """

    def __init__(self, what: str, group: str, modules: Mapping[str, Sequence[str]] | None = None) -> None:
        self.what, self.group = what, group
        self._modules = {name: module for module, names in (modules or {}).items() for name in names}
        self._known: dict[str, T] = {}
        self._plugins: dict[str, EntryPoint] | None = None

    def register(self, name: str) -> Callable[[C], C]:
        """Return a decorator that registers what it decorates, a T, as `name`.

        A class that is defined again, for example by running a notebook cell twice, replaces the former one.

        Raises:
            SeesayError: something else is registered under that name.
        """

        def add(implementation: C) -> C:
            there, module = self._known.get(name), _origin(implementation)[0]
            packages = {each.partition(".")[0] for each in (module, self._modules.get(name, module))}
            if len(packages) > 1 or (there is not None and _origin(there) != _origin(implementation)):
                raise SeesayError(f"The {self.what} '{name}' is already registered; choose another name.")
            self._known[name] = cast(T, implementation)
            return implementation

        return add

    def __getitem__(self, name: str) -> T:
        """Return the implementation of that name; import it first if an installed package provides it.

        Raises:
            SeesayError: there is none, or its package cannot be imported.
            MissingExtraError: the included ones need a package that is not installed.
        """
        if name not in self._known and name in self._modules:
            with naming_extras():
                import_module(self._modules[name])
        elif name not in self._known and (point := self._entry_points().get(name)):
            try:
                point.load()
            except Exception as failure:  # whatever somebody else's module raises
                package = point.dist.name if point.dist else point.value
                raise SeesayError(
                    f"The {self.what} '{name}' of package '{package}' cannot be imported: {failure}."
                ) from failure
            if name not in self._known:
                raise SeesayError(f"{point.value}: registers no {self.what} '{name}'.")
        if name in self._known:
            return self._known[name]
        near = did_you_mean(name, self) or "."
        raise SeesayError(f"No {self.what} '{name}'{near} There are: {', '.join(self)}.")

    def __contains__(self, name: object) -> bool:
        """Return whether something is registered under that name; imports no plug-in."""
        return any(name == each for each in self)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names: included ones in order of registration, then those of packages."""
        return iter(dict.fromkeys((*self._modules, *self._known, *self._entry_points())))

    def __len__(self) -> int:
        """Return how many names there are."""
        return sum(1 for _ in self)

    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # slow to import, and most names are included ones

        if self._plugins is None:
            self._plugins = {point.name: point for point in entry_points(group=self.group)}
        return self._plugins


def _origin(implementation: object) -> tuple[str, str]:
    """Return where an implementation is defined: its module and its name there."""
    found = getattr(implementation, "implementation", implementation)  # registered with its settings
    found = found if hasattr(found, "__qualname__") else type(found)  # of a class or function, or an instance
    return found.__module__, found.__qualname__
