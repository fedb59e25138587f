# study.png of tools/study.sh.  gnuplot -e "title='...'; runs='dense-1 ...'"
set datafile separator ','
set terminal pngcairo size 1200,480 font 'sans,12'
set output 'study.png'
set multiplot layout 1,2 title title noenhanced
set grid ytics lc rgb '#dddddd'
set xlabel 'saved activations (MiB)'
set ylabel 'test top-1 (%)'
set offsets graph 0.12, graph 0.12, graph 0.12, graph 0.12
unset key
plot 'runs.csv' every ::1 using ($7/1048576):4 with points pt 6 ps 0.9 lc rgb '#999999', \
     'table.csv' every ::1 using ($9/1048576):3 with points pt 7 ps 1.4 lc rgb '#1f77b4', \
     '' every ::1 using ($9/1048576):3:1 with labels noenhanced offset 0,1
set offsets
set key top right noenhanced
set xlabel 'epoch'
set ylabel 'training loss'
plot for [run in runs] run.'/log.csv' every ::1 using 1:4 with linespoints lw 2 pt 7 ps 0.6 title run
unset multiplot
