"""The element types: `eas.base.dtypes`, under the name that users import."""

from eas.base.dtypes import *  # noqa: F403
