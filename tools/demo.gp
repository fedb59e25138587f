# Plots of tools/demo.sh: accuracy over epochs, and memory.
#     gnuplot -e "plots='demo/accuracy.png, demo/memory.png'" tools/demo.gp
# Without demo/accuracy.png in `plots`, only memory.
set datafile separator ','
set terminal pngcairo size 900,520 font 'sans,12'
set style line 1 lw 2 pt 7 lc rgb '#333333'
set style line 2 lw 2 pt 5 lc rgb '#1f77b4'
set style line 3 lw 2 pt 9 lc rgb '#d62728'
set grid ytics lc rgb '#dddddd'
set key bottom right
if (strstrt(plots, 'accuracy.png')) {
    set output 'demo/accuracy.png'
    set title 'Test accuracy while training resmlp\_tiny'
    set xlabel 'epoch'
    set ylabel 'top-1 (%)'
    set xtics 1
    plot 'demo/dense/log.csv' using 'epoch':'top1' with linespoints ls 1 title 'dense', \
         'demo/pruned-50/log.csv' using 'epoch':'top1' with linespoints ls 2 title 'half pruned', \
         'demo/pruned-80/log.csv' using 'epoch':'top1' with linespoints ls 3 title 'four fifths pruned'
}
set output 'demo/memory.png'
set title 'Activations kept for the backward pass'
unset xlabel
set ylabel 'MiB'
set yrange [0:*]
set style fill solid 0.8
set boxwidth 0.6
unset key
plot 'demo/table.csv' every ::1 using 0:3:xtic(1) with boxes lc rgb '#1f77b4', \
     '' every ::1 using 0:3:(sprintf('%.1f', $3)) with labels offset 0,0.7
