/*
 * reduce_group.h: the group of reduce_mpi, for its own files; with them alone mpi.h is included.
 *
 * Callers put windows into a list and a call into `call`, and wait for `answered`. The thread
 * (reduce_thread.c) turns in a loop: signs of life (reduce_peers.c), the call, and pieces of
 * windows (reduce_windows.c). After a fault it goes on with signs of life only.
 */
#ifndef TRAINER_REDUCE_GROUP_H
#define TRAINER_REDUCE_GROUP_H

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>

#include "trainer/reduce/reduce.h"

/* Of a rank, and what it tells the others. */
typedef enum peer_word {
    PEER_LIVES,
    PEER_ASKS,   /* wants an answer at once */
    PEER_LEFT,   /* closes after `number` operations */
    PEER_FAILED, /* aborts: of rank `number` there was no sign of life, or on its own */
    PEER_SILENT  /* never sent */
} peer_word;

/* What a rank does next. A window and a call begin with an exchange of these, of one form for all
 * kinds: so ranks that do different things notice it before their messages meet. */
typedef struct reduce_header {
    uint32_t kind, number; /* a reduce_kind or one of the next; of the windows, or of the calls */
    uint64_t size;         /* values of a window, bytes, or words */
    uint32_t words[REDUCE_WORDS];
} reduce_header;

enum {                                      /* what `words` has */
    DOES_GATHER = REDUCE_SCATTER_CODED + 1, /* the most bytes; sizes may differ */
    DOES_BROADCAST,
    DOES_AGREE, /* words to decide on, which may differ; of a window, the key of its draws */
    DOES_NOTHING
};

typedef struct peer_beat {
    int32_t word, number;
    uint32_t windows, calls; /* that it has begun */
    reduce_header waits;     /* for the others to do the same */
} peer_beat;

typedef struct peer {
    peer_word state;
    int32_t number;    /* with state PEER_LEFT and PEER_FAILED */
    double heard;      /* when it showed life */
    peer_beat in, out; /* while they are transferred */
    bool told;         /* it has our last word */
} peer;

typedef struct reduce_window {
    struct reduce_window *next;
    reduce_kind kind;
    cl_event ready; /* NULL once it is complete */
    float *values;
    size_t count, from; /* columns of slices from `from` on are not begun */
    uint64_t key;       /* of its draws */
    int pieces;         /* in flight */

    bool announced, alike; /* its header was sent; all ranks have the same window */
    MPI_Request request;
    reduce_header header, heads[]; /* (ranks) */
} reduce_window;

/* The same columns of each slice of a window. */
typedef struct reduce_piece {
    reduce_window *window; /* NULL: free */
    size_t from, width;
    bool gathers;          /* its sums are there, or not wanted */
    MPI_Request *requests; /* of ranks r: [r] receives, [ranks + r] sends */
    float *received;       /* ranks - 1 parts of `width` floats, or as many groups of codes and
                              as many again to send */
} reduce_piece;

enum { PIECES = 16, DECODED = 1024 /* floats at once */ };

/* What MPI does while a caller waits. */
typedef struct reduce_call {
    int (*post)(reduce_group *group, MPI_Request *request); /* NULL: there is none */
    bool posted;
    const void *from;
    void *to;
    int count;
    const int *counts, *places;
    MPI_Request request;
} reduce_call;

struct reduce_group {
    reduce_options options;
    reduce_place place;
    pthread_t thread;

    pthread_mutex_t lock; /* holds what follows */
    pthread_cond_t asked, answered;
    uint64_t turns;      /* of the thread */
    bool news;           /* a caller has asked since the last turn */
    fault fault;         /* why the group is of no use any more */
    bool opened, closed; /* by the thread */
    bool waiting;        /* a caller */
    bool leaving;        /* a caller closes */
    bool aborting;       /* with `code` */
    int code;
    int32_t operations; /* begun: windows, and parts of calls */
    uint32_t windows_begun, calls_begun;
    reduce_window *first, **end; /* windows that are not complete; where the next one goes */
    reduce_call call;
    uint64_t draw, drawn;         /* the number to draw from, and windows since */
    reduce_header header, *heads; /* of the call; (ranks) */

    /* Of the thread alone. */
    MPI_Comm control, announced, windows;
    char (*hosts)[REDUCE_HOST];
    double clock, last; /* seconds; reduce_thread.c tells how they differ */
    double next_beat;
    double asks_since; /* below 0: it does not */
    peer *peers;
    MPI_Request *from_peers, *to_peers;
    int *indices; /* 2 * ranks: what MPI_Testsome completed */
    MPI_Status
        *statuses; /* 2 * ranks, unread: compilers take MPICH's MPI_STATUSES_IGNORE for an array */
    reduce_piece pieces[PIECES];
    int next_piece;
    size_t width;   /* of a piece, at most */
    float **parts;  /* ranks, for reduce_tree */
    float *decoded; /* (ranks * DECODED) */
};

/* Sets the group's fault, from any thread. Returns false. */
MESSAGE_PRINTF(3, 4)
bool group_fail(reduce_group *group, int code, const char *format, ...);

/* The same for a result of MPI; true for success. doing: "sending a window". */
bool group_check(reduce_group *group, int result, const char *doing);

/* Waits for a condition, or for so long: below 1 s. With the lock held. */
void group_wait(reduce_group *group, pthread_cond_t *condition, double seconds);

/* Whether the group has its fault. */
bool group_failed(reduce_group *group);

/* Whether all ranks begin the same; if not, the group's fault says who does what. */
bool group_alike(reduce_group *group, const reduce_header *heads);

/* The same of two ranks that wait for each other to do something else. Returns false. */
bool group_crossed(reduce_group *group, const reduce_header *mine, int r, const reduce_header *its);

/* ---- reduce_peers.c ---- */

bool peers_open(reduce_group *group);
void peers_close(reduce_group *group);

/* A turn. Returns whether something came. */
bool peers_turn(reduce_group *group);

/* A message of this rank was there. */
void peers_heard(reduce_group *group, int rank);

/* Sends a last word to all that have not got it. Returns whether all messages are on their way. */
bool peers_tell(reduce_group *group, peer_word word, int32_t number);

/* Whether all ranks have left, and know that this one has. */
bool peers_have_left(reduce_group *group);

/* The rank because of which this one aborts: a silent one, or its own. */
int32_t peers_culprit(const reduce_group *group);

/* ---- reduce_windows.c ---- */

bool windows_open(reduce_group *group);
void windows_close(reduce_group *group);

static inline bool windows_are_coded(reduce_kind kind)
{
    return kind == REDUCE_SUM_CODED || kind == REDUCE_SCATTER_CODED;
}

/* Sends the headers of windows that have begun. */
void windows_announce(reduce_group *group);

/* A turn. Returns whether a message arrived or a piece began. *exchanging: pieces are in flight. */
bool windows_turn(reduce_group *group, bool *exchanging);

/* ---- reduce_thread.c ---- */

/* The thread's function, of a group with options. */
void *reduce_thread(void *group);

#endif
