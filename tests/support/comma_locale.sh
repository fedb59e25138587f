#!/bin/sh
# Makes the locale "comma" in a folder that exists: LOCPATH=FOLDER LC_NUMERIC=comma writes 1,5 for 1.5, and with
# LC_CTYPE=comma tolower() leaves capitals as they are, as it does with I in Turkish. It needs the C library's
# localedef alone, no definitions of /usr/share/i18n. Fails where none can be made.
#   comma_locale.sh FOLDER
export LC_ALL=C # a decimal point in every locale
printf 'CHARMAP\nEND CHARMAP\n' >"$1/charmap"
printf 'LC_NUMERIC\ndecimal_point ","\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n' >"$1/numbers"
printf 'LC_CTYPE\ntolower (<U005F>,<U005F>)\nEND LC_CTYPE\n' >>"$1/numbers"
localedef -c -f "$1/charmap" -i "$1/numbers" "$1/comma" >/dev/null 2>&1 # complains about the other categories
[ "$(env -i PATH="$PATH" LOCPATH="$1" LC_NUMERIC=comma locale decimal_point 2>/dev/null)" = , ]
