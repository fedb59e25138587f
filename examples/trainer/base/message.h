/* message.h: the room for a message to the user: two paths and what is said of them. */
#ifndef TRAINER_MESSAGE_H
#define TRAINER_MESSAGE_H

enum { MESSAGE_SIZE = 2 * 4096 + 512 }; /* PATH_MAX on Linux is 4096 */

/* Of a function whose argument number `string` is a format for those from `first` on. */
#if defined(__GNUC__)
#define MESSAGE_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define MESSAGE_PRINTF(string, first)
#endif

#endif
