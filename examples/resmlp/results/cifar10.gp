# cifar10.png: test accuracy over epochs, and accuracy over the bytes kept.  gnuplot -e "runs='dense ...'; epochs=10"
set datafile separator ','
set terminal pngcairo size 1100,460 font 'sans,12'
set output 'cifar10.png'
set multiplot layout 1,2
set grid ytics lc rgb '#dddddd'
set key bottom right
set xlabel 'epoch'
set ylabel 'test top-1 (%)'
set xtics 1
set title 'resmlp\_tiny on CIFAR-10, seed 1'
plot for [run in runs] \
    run.'/log.csv' using 'epoch':'top1' with linespoints lw 2 pt 7 ps 0.8 title run
set title sprintf('accuracy and memory after %d epochs', epochs)
set xlabel 'saved activations (MiB)'
set xtics auto
set xrange [0:*]
set offsets graph 0, graph 0.12, graph 0.12, graph 0.12
unset key
plot 'cifar10.csv' every ::1 using ($7/1048576):4 with points pt 7 ps 1.4 lc rgb '#1f77b4', \
     '' every ::1 using ($7/1048576):4:1 with labels offset 0,1
unset multiplot
