# The plot of tools/demo.sh: accuracy over the bytes that are kept for the backward pass, from demo/table.csv.
#     gnuplot tools/demo.gp
set datafile separator ','
set terminal pngcairo size 900,420 font 'sans,13'
set output 'demo/accuracy.png'
set title 'resmlp\_tiny: accuracy over the activations kept for the backward pass'
set xlabel 'saved activations (MiB)'
set ylabel 'test top-1 (%)'
set xrange [0:*]
set offsets 0, graph 0.45, graph 0.15, graph 0.15 # room for the labels
set grid lc rgb '#dddddd'
unset key
name(run) = run eq 'pruned-50' ? 'half pruned' : run
plot 'demo/table.csv' every ::1 using 3:2 with points pt 7 ps 2 lc rgb '#1f77b4', \
     '' every ::1 using 3:2:(sprintf('%s: %.1f %%, %.1f MiB', name(strcol(1)), $2, $3)) with labels left offset 1.5,0
