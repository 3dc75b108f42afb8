"""An exception that nobody can catch."""

import weakref


class _Mortal:
    __slots__ = ("__weakref__",)


def name(callback: object) -> str:
    """What to call a callback, whatever its `repr` does."""
    try:
        name = getattr(callback, "__qualname__", None)
        return name if isinstance(name, str) else repr(callback)
    except Exception:
        return type(callback).__qualname__


def unraisable(callback: object, error: BaseException) -> None:
    """Gives an error of a callback to sys.unraisablehook.

    The hook's argument cannot be made by hand. So the error is raised where
    the interpreter itself has nobody to give it to: in a weak reference's
    callback.
    """

    def raising(_: object) -> None:
        raise error

    raising.__qualname__ = name(callback)
    mortal = _Mortal()
    reference = weakref.ref(mortal, raising)
    del mortal, reference
