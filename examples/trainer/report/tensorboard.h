/*
 * tensorboard.h: --tensorboard DIR, an event file that TensorBoard shows.
 *
 * Each process writes one file, events.out.tfevents.TIME.HOST.PID, with the epochs that it
 * finished; a resumed run adds a file, and TensorBoard joins them by step. Such a file begins with
 * a SessionLog START at the run's next step: TensorBoard drops what a lost run wrote from there on.
 * A file is records of
 *
 *     uint64 length; uint32 masked CRC-32C of it; an Event (protocol buffer); uint32 masked CRC-32C
 *
 * all little endian; the first Event has file_version "brain.Event:2".
 */
#ifndef TRAINER_TENSORBOARD_H
#define TRAINER_TENSORBOARD_H

#include <stdint.h>

#include "trainer/base/fault.h"
#include "trainer/report/csv_log.h"

typedef struct tensorboard {
    bool tokens;  /* names the scalar of the speed */
    FILE *stream; /* NULL: nothing is written */
    char *path;
} tensorboard;

/* Makes the folder and the file of a run that has done `steps` steps. Faults: CODE_DATA,
 * CODE_MEMORY; *board then needs no closing. */
bool tensorboard_open(const char *folder, uint64_t steps, tensorboard *board, fault *f);

/* Writes the scalars of an epoch, and flushes. A no-op without a file. Faults: CODE_DATA. */
bool tensorboard_add(tensorboard *board, const csv_row *row, fault *f);
void tensorboard_close(tensorboard *board); /* accepts {0} */

/* CRC-32C (Castagnoli) as RFC 3720 has it. */
uint32_t tensorboard_crc(const unsigned char *bytes, size_t count);

#endif
