"""A small live ISO: room for an Ignition config, and a kernel, an initrd and a root file system of zeros."""

import struct

SECTOR = 2048
CONFIG_SECTORS = 128
BOOT = 20 + CONFIG_SECTORS


def record(name, sector, length, is_directory):
    size = 33 + len(name) + (33 + len(name)) % 2
    entry = bytearray(size)
    entry[0] = size
    entry[2:10] = struct.pack("<I", sector) + struct.pack(">I", sector)
    entry[10:18] = struct.pack("<I", length) + struct.pack(">I", length)
    entry[25] = 2 if is_directory else 0
    entry[32] = len(name)
    entry[33:33 + len(name)] = name
    return bytes(entry)


def directory(own, parent, *entries):
    return record(b"\0", own, SECTOR, True) + record(b"\x01", parent, SECTOR, True) + b"".join(entries)


def write(path):
    image = bytearray((BOOT + 8) * SECTOR)
    head = bytearray(b"\x01CD001\x01".ljust(SECTOR, b"\0"))
    head[40:72] = b"CLIENTS".ljust(32)
    head[80:84] = struct.pack("<I", len(image) // SECTOR)
    head[156:190] = record(b"\0", 18, SECTOR, True)
    names = [b"INITRD.IMG;1", b"ROOTFS.IMG;1", b"VMLINUZ.;1"]
    boot = [record(name, BOOT + 1 + index, 1000, False) for index, name in enumerate(names)]
    config = record(b"IGNITION.IMG;1", 20, CONFIG_SECTORS * SECTOR, False)
    for sector, content in [
        (16, head),
        (17, b"\xffCD001\x01"),
        (18, directory(18, 18, record(b"IMAGES", 19, SECTOR, True))),
        (19, directory(19, 18, config, record(b"PXEBOOT", BOOT, SECTOR, True))),
        (BOOT, directory(BOOT, 19, *boot)),
    ]:
        image[sector * SECTOR:sector * SECTOR + len(content)] = content
    with open(path, "wb") as file:
        file.write(image)
