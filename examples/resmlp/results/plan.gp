# plan.png: bytes that live at each command of a training step, by tensor; see plan.sh.
set datafile separator ","
set terminal pngcairo noenhanced size 1500,1000 font ",10"
set output "plan.png"
set multiplot layout 2,2 title "resmlp_s12, 224 px, batch 32: what lives during a training step"
set key outside right top reverse Left samplen 1 font ",8" invert
set xlabel "command of the step"
set ylabel "MiB"
set style fill solid 0.85 noborder
do for [name in "dense exact exact-tokens compact"] {
    file = name . ".csv"
    stats file skip 1 using 1 nooutput
    columns = int(system("head -1 " . file . " | tr ',' '\n' | wc -l"))
    set title name
    set xrange [STATS_min:STATS_max]
    set yrange [0:*]
    plot for [i = columns:3:-1] file skip 1 using 1:((sum [k = 3:i] column(k)) / 1048576.0) \
        with filledcurves y1=0 linetype columns - i + 1 \
        title word(system("head -1 " . file . " | tr ',' ' '"), i)
}
unset multiplot
