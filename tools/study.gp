# study.png of tools/study.sh: an arm has one colour in both plots.
#     gnuplot -e "title='...'; arms='dense pruned'; runs='dense-1 dense-2 pruned-1'; of='1 1 2'" study.gp
# of: the number of the arm of each run.
set datafile separator ','
set terminal pngcairo size 1200,480 font 'sans,12'
set output 'study.png'
set multiplot layout 1,2 title title noenhanced
set grid ytics lc rgb '#dddddd'
set xlabel 'saved activations (MiB)'
set ylabel 'test top-1 (%)'
stats 'runs.csv' every ::1 using ($7/1048576) nooutput
if (STATS_min > 0 && STATS_max > 4 * STATS_min) { set logscale x 2; set xrange [STATS_min / 1.5:STATS_max * 1.5] }
set offsets graph 0.05, graph 0.05, graph 0.08, graph 0.08
stats 'runs.csv' every ::1 using 4 name 'TOP' nooutput
if (exists('TOP_records') && TOP_records > 0 && TOP_max - TOP_min < 1) { # at least a point is shown
    set offsets graph 0.05, graph 0.05, 0, 0
    set yrange [(TOP_min + TOP_max - 1) / 2:(TOP_min + TOP_max + 1) / 2]
}
unset key
plot for [i=1:words(arms)] 'runs.csv' every ::1 using \
    (strcol(1) eq word(arms, i) ? $7/1048576 : NaN):4 with points pt i ps 1.5 lw 2 lc i
unset logscale x
set xrange [*:*]
set yrange [*:*]
set offsets
set key top right noenhanced
set xlabel 'epoch'
set ylabel 'training loss'
plot for [i=1:words(runs)] word(runs, i).'/log.csv' every ::1 using 1:4 with linespoints lw 2 \
    pt int(word(of, i)) ps 0.6 lc int(word(of, i)) notitle, \
    for [i=1:words(arms)] keyentry with linespoints lw 2 pt i ps 1.2 lc i title word(arms, i)
unset multiplot
