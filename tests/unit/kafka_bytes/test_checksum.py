"""The checksum is that of the package crc32c, loaded without the rest of the package."""

from crc32c import crc32c as crc32c_of_the_package

from kafka_bytes.checksum import crc32c


def test_the_checksum_is_the_packages() -> None:
    for data in (b"", b"123456789", bytes(1000)):
        assert crc32c(data) == crc32c_of_the_package(data)
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"56789"), crc32c(bytearray(b"1234"))) == 0xE3069283
