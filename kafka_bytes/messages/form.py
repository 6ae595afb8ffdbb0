"""The constants that messages of kio's form have, for version 0 without tagged fields."""

from typing import ClassVar

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16


class RequestForm:
    """Base class of requests: the header is that of versions before KIP-482."""

    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class ResponseForm:
    """Base class of responses: the header is that of versions before KIP-482."""

    __slots__ = ()
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


class PartForm(ResponseForm):
    """Base class of structs in a response."""

    __slots__ = ()
    __type__: ClassVar = EntityType.nested
