"""The constants that messages of kio's form have, for version 0 without tagged fields."""

from typing import ClassVar

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16


class RequestForm:
    """A request with the header of versions before KIP-482."""

    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class ResponseForm:
    """A response with the header of versions before KIP-482."""

    __slots__ = ()
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


class PartForm(ResponseForm):
    """A struct of a response."""

    __slots__ = ()
    __type__: ClassVar = EntityType.nested
