/* See build.h. The id is a note that the program is loaded with: ELF, gABI "Note Section". */
#include "base/build.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Notes are made of words of 4 bytes. */
static size_t padded(size_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

static void write_hex(const uint8_t *bytes, size_t n, char out[BASE_BUILD_ID_BYTES])
{
    const size_t most = (BASE_BUILD_ID_BYTES - 1) / 2;
    for (size_t i = 0; i < n && i < most; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void read_notes(const uint8_t *at, size_t left, char out[BASE_BUILD_ID_BYTES])
{
    ElfW(Nhdr) note;
    while (left >= sizeof(note)) {
        memcpy(&note, at, sizeof(note));
        const size_t name_bytes = padded(note.n_namesz);
        const size_t bytes = sizeof(note) + name_bytes + padded(note.n_descsz);
        if (bytes > left) {
            return;
        }
        const uint8_t *name = at + sizeof(note);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
            memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
            write_hex(name + name_bytes, note.n_descsz, out);
            return;
        }
        at += bytes;
        left -= bytes;
    }
}

/* Called for the program first, and for nothing after it. */
static int read_program(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    for (size_t p = 0; p < info->dlpi_phnum; p++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[p];
        if (header->p_type == PT_NOTE) {
            // The loader has mapped the notes there.
            const uint8_t *notes = (const uint8_t *)(info->dlpi_addr + header->p_vaddr); // NOLINT
            read_notes(notes, header->p_memsz, out);
        }
    }
    return 1;
}

void base_build_id(char out[BASE_BUILD_ID_BYTES])
{
    (void)snprintf(out, BASE_BUILD_ID_BYTES, "unknown");
    (void)dl_iterate_phdr(read_program, out);
}
