/* In place of MPI's, for a trainer of several processes: in message number $DRIFT of sums or
 * parameters that rank 1 sends, a bit is another one, as a broken network could have it. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
    MPI_Request *request)
{
    static int messages;
    const char *wanted = getenv("DRIFT");
    int rank = 0;
    (void)PMPI_Comm_rank(comm, &rank);
    /* of the windows (reduce_windows.c): odd tags, with floats */
    if (wanted != NULL && rank == 1 && type == MPI_BYTE && tag % 2 == 1 && count > 1024 &&
        ++messages == atoi(wanted)) {
        unsigned char *other = malloc((size_t)count); /* stays, as it is in flight */
        if (other != NULL) {
            memcpy(other, from, (size_t)count);
            other[1] ^= 64; /* of a fraction */
            from = other;
        }
    }
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}
