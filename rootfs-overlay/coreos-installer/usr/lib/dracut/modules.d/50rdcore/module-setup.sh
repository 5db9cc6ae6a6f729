#!/bin/bash
# rdcore in the initramfs: landfall answers to the name.

install() {
    inst_simple /usr/bin/landfall /usr/bin/rdcore
}
