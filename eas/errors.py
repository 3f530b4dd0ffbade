"""What can go wrong: `eas.base.errors`, under the name that users import."""

from eas.base.errors import *  # noqa: F403
from eas.base.errors import __all__ as __all__
